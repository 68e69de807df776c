"""The commands, a file for each: they read arguments, call the library and print."""

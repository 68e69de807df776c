"""The commands, by what they are about: each reads its arguments, calls the library and prints."""

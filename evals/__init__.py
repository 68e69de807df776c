"""Ten small tasks for the coding agent, each on a scratch folder and with a check that is not the agent's."""

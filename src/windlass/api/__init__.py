"""What users hold: Agent, Runtime, Session, TurnHandle, TurnResult. The only place that names adapters."""

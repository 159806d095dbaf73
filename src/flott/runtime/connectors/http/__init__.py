"""HTTP: a sink that calls a webhook, and a source of Server-Sent Events. Driver and task side."""

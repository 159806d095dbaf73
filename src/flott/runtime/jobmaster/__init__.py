"""One job's life: its states, its epoch loop, its restarts. Driver side. Never imports Spark."""

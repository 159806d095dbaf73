"""The engine. No user program imports it; what joins it to the API is data (``flott.graph``)."""

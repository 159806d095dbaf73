"""One module per subject, each with a table ``ENDPOINTS``. ``flott.rest.app`` collects them all."""

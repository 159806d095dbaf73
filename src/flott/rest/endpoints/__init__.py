"""The endpoints: one module per subject, each with a table ``ENDPOINTS``. ``flott.rest.app`` collects the tables."""

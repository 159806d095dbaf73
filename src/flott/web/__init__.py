"""The web UI: static pages in ``static``, which read only the REST API, and the module that serves them."""

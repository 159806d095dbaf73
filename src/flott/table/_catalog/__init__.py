"""Catalogs: what tables, views and functions exist, by name."""

"""Subscriptions: provider changes become client notifications."""

"""The tea shop's orders."""

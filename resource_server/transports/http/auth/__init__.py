"""Authorization: bearer tokens, issuer keys and protected-resource metadata."""

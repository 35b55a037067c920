"""Sessions that any server of a fleet answers, by what they share in Redis or Valkey."""

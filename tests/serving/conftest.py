from tests.cli.conftest import collections_as_before, folder, logs_as_before, run

__all__ = ["collections_as_before", "folder", "logs_as_before", "run"]

from tests.clients.conftest import reach

__all__ = ["reach"]

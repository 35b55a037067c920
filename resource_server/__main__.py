"""`python -m resource_server`: the command line."""

from resource_server.cli import main

if __name__ == "__main__":
    main()

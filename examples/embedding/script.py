"""A script that reads the notes and the table of prices, with the extra `duckdb`."""

import asyncio
from pathlib import Path

import resource_server


async def main() -> None:
    """Print the first line of a note, and the prices."""
    async with resource_server.connect(Path(__file__).with_name("mcp-resources.yaml")) as client:
        note = await client.read("file:///notes/brewing.md", {"lines": "1-1"})
        print(note.text.strip())
        for row in await client.read_table("duckdb://prices/prices"):
            print(row["tea"], row["cents"] / 100)


if __name__ == "__main__":
    asyncio.run(main())

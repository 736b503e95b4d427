# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The shared library coin_grid._core, compiled against puffervec's headers; everything else stands in pyproject.toml."""

from setuptools import Extension, setup

from puffervec.env_types import compile_args, get_include

setup(
    ext_modules=[
        Extension(
            "coin_grid._core",
            ["coin_grid/coin_grid.c"],
            include_dirs=[get_include()],
            extra_compile_args=compile_args(),
        )
    ]
)

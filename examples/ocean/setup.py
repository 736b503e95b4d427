# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Builds the shared library lantern._core: the glue includes puffervec's pv_ocean.h, which includes
lantern.h.
"""

from setuptools import Extension, setup

from puffervec.contract.env_types import compile_args, get_include

setup(
    ext_modules=[
        Extension(
            "lantern._core",
            ["lantern/glue.c"],
            include_dirs=[get_include(), "lantern"],  # pv_ocean.h includes lantern.h
            extra_compile_args=compile_args(),
            depends=["lantern/lantern.h"],
        )
    ]
)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""C envs of PufferLib 3.0, 4.0 and 5.0, compiled as they are.

`source.py` finds the files, `ini.py` reads their settings, `compiling.py` compiles them on the
headers of csrc/contract/ocean, `probing.py` asks the compiled env what it is, `python_class.py`
asks the Python class of 3.0, `config.py` makes the settings and the arrays that the env reads,
`mapping.py` translates the training settings, `pictures.py` shows what an env draws with raylib.
`door.py` puts them together.
"""

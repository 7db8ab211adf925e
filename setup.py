"""What pyproject.toml cannot say: SLUICE_KERNELS=1 puts compiled kernels into the wheel (docs/install.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

KERNELS = os.environ.get("SLUICE_KERNELS") == "1"
NEEDED = ["cryptography", "numba", "numpy", "pyarrow", "pydantic", "pymysql", "sqlglot", "structlog", "zstandard"]


class WithKernels(build_py):
    def run(self) -> None:
        super().run()
        built = Path(self.build_lib).absolute()
        file = built / "cdc_core" / "compiled" / "ahead_of_time.xz"
        command = [sys.executable, "-B", "-m", "cdc_core.compiled.ahead", str(file)]
        subprocess.run(command, check=True, cwd=built)


class ForOneMachine(Distribution):
    """Gives the wheel the tags of this Python and platform."""

    def has_ext_modules(self) -> bool:
        return True


if KERNELS:
    setup(cmdclass={"build_py": WithKernels}, distclass=ForOneMachine, setup_requires=NEEDED)
else:
    setup()

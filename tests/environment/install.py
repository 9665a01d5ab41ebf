"""Puts `torchvision_without_gpu` into the environment of the Python that runs this, to be imported when it starts."""

import shutil
import sysconfig
from pathlib import Path

packages = Path(sysconfig.get_path("purelib"))
module = Path(__file__).with_name("torchvision_without_gpu.py")
shutil.copy(module, packages)
(packages / f"{module.stem}.pth").write_text(f"import {module.stem}\n", encoding="utf-8")

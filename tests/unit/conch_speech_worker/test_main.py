import subprocess
import sys

SHOW = "import sys, conch_speech_worker.main; print(*sorted(name for name in sys.modules if name.startswith('conch_')))"


def test_the_main_module_brings_nothing_along_since_every_child_that_decodes_runs_it():
    shown = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True).stdout.split()
    assert shown == ["conch_speech_worker", "conch_speech_worker.main"]

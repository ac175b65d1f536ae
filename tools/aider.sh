#!/usr/bin/env bash
# Print the path of aider, a coding agent that the tests run against the daemon: the packages of requirements/aider.lock,
# fetched once (about a minute, 700 MB) into a folder outside the tree. It needs a Python below 3.13; where there is
# none, nothing is printed, and its test is skipped.
set -euo pipefail
. "$(dirname "$0")/common.sh"

fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null; }
python=
for candidate in .venv/bin/python python3.12 python3.11; do
  fits "$candidate" || continue
  python=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2], sys._base_executable)')
  break
done
if [ -z "$python" ]; then
  echo "aider needs Python 3.11 or 3.12, and there is none: its test will be skipped." >&2
  exit
fi
read -r version python <<<"$python"
target=$cache/aider-$(sha256sum requirements/aider.lock | cut -c1-12)-py$version
if [ ! -d "$target" ]; then
  mkdir -p "$cache"
  scratch=$(mktemp -d "$cache/.partial-XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  .venv/bin/python -m pip --disable-pip-version-check --python "$python" install --quiet --require-hashes \
    --target "$scratch/lib" -r requirements/aider.lock >&2 ||
    die "" "aider could not be fetched; pip's own words are above. Check the network and the disk, then run make again."
  # Apart from whatever else this Python can import.
  cat >"$scratch/aider" <<END
#!/bin/sh
exec "$python" -I -c 'import sys; sys.path.insert(0, "$target/lib"); from aider.main import main; sys.exit(main())' "\$@"
END
  chmod +x "$scratch/aider"
  chmod 755 "$scratch"
  # Two runs at once are harmless: the second finds the folder there and drops its own copy.
  mv -T "$scratch" "$target" 2>/dev/null || true
fi
echo "$target/aider"

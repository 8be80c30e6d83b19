"""Makes `import torch` work without CUDA's libraries, which PyPI's build of torch for Linux is linked against.

Writes, next to torch's own libraries, a stub for each library that they need and that cannot be found. A stub defines
the symbols that torch expects of it; calling one ends the process with a message. Nothing that runs on the CPU does.

Needs a C compiler and `readelf`. Usage: python stub_libraries.py
"""

import ctypes
import glob
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Libraries of CUDA whose symbols carry no version have these prefixes.
CUDA_SYMBOL = re.compile(r"(cu[A-Z]|cublas|cudnn|cufft|cufile|curand|cusolver|cusparse|nccl|nvrtc|nvshmem|nvJit)\w*$")


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True).stdout


class Library:
    """What the dynamic section and symbol table of one shared library say."""

    def __init__(self, path):
        self.needed = re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("-d", path))
        self.defined, self.undefined = set(), []
        for line in readelf("--dyn-syms", path).splitlines():
            # Num: Value Size Type Bind Visibility Section Name[@Version [(index)]]
            fields = line.split()
            if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
                continue
            name, _, version = fields[7].partition("@")
            if fields[6] == "UND":
                self.undefined.append((name, version))
            else:
                self.defined.add(name)
        self.version_files = {}
        file = None
        for line in readelf("-V", path).splitlines():
            if found := re.search(r"\bFile: (\S+)", line):
                file = found.group(1)
            elif file and (found := re.search(r"\bName: (\S+)\s+Flags", line)):
                self.version_files[found.group(1)] = file


def find_libraries(torch):
    """The libraries of torch and those it needs beside them, by file name, and the names that are missing."""
    site = os.path.dirname(torch)
    directories = [os.path.join(torch, "lib"), *glob.glob(os.path.join(site, "nvidia", "**", "lib"), recursive=True)]
    start = [*glob.glob(os.path.join(torch, "_C.*.so")), os.path.join(torch, "lib", "libtorch_global_deps.so")]
    # Loaded on demand, from libraries that are found all the same.
    start += glob.glob(os.path.join(torch, "lib", "libtorch_cuda_linalg.so"))
    found, missing, queue = {}, set(), start
    while queue:
        path = queue.pop()
        library = found[os.path.basename(path)] = Library(path)
        for name in library.needed:
            if name in found or name in missing:
                continue
            paths = [p for d in directories if os.path.exists(p := os.path.join(d, name))]
            if paths:
                queue.append(paths[0])
            elif not loads(name):
                missing.add(name)
    return found, missing


def loads(name):
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def wanted_symbols(found, missing):
    """For each missing library, the symbols it must define under each version name (None where it has none)."""
    wanted = {name: {} for name in missing}
    defined = set().union(*(library.defined for library in found.values()))
    unversioned = set()
    for library in found.values():
        for symbol, version in library.undefined:
            file = library.version_files.get(version)
            if file in missing:
                wanted[file].setdefault(version, set()).add(symbol)
            elif not version and symbol not in defined and CUDA_SYMBOL.match(symbol):
                unversioned.add(symbol)
    # Nothing says which library these come from; the loader looks in all of them.
    plain = sorted(name for name in missing if not wanted[name])
    if plain and unversioned:
        wanted[plain[0]][None] = unversioned
    return wanted


def compile_stub(compiler, name, versions, directory):
    symbols = sorted(set().union(*versions.values()))
    functions = "\n".join(f'void {symbol}(void) {{ missing("{symbol}"); }}' for symbol in symbols)
    source = f"""
        extern int dprintf(int, const char *, ...);
        extern void abort(void);
        static void missing(const char *symbol) {{
            dprintf(2, "%s was called, but {name} is only a stub for machines without CUDA\\n", symbol);
            abort();
        }}
        void (*{re.sub(r"[^A-Za-z0-9]", "_", name)}_stub)(const char *) = missing;
        {functions}
    """
    script = "".join(
        f"{version} {{ global: {' '.join(symbol + ';' for symbol in sorted(names))} }};\n"
        for version, names in sorted(versions.items(), key=lambda item: item[0] or "")
        if version
    )
    with tempfile.TemporaryDirectory() as scratch:
        code, exports = os.path.join(scratch, "stub.c"), os.path.join(scratch, "stub.map")
        with open(code, "w") as file:
            file.write(source)
        with open(exports, "w") as file:
            file.write(script)
        options = [f"-Wl,--version-script={exports}"] if script else []
        made = os.path.join(directory, f".{name}.new")
        command = [compiler, "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{name}", *options, code, "-o", made]
        built = subprocess.run(command, capture_output=True, text=True)
        if built.returncode != 0:
            sys.exit(f"{compiler} cannot build the stub {name}: {built.stderr.strip()[-2000:]}")
        os.replace(made, os.path.join(directory, name))


def main():
    compiler = next(filter(None, map(shutil.which, [os.environ.get("CC") or "cc", "gcc", "clang"])), None)
    if compiler is None or shutil.which("readelf") is None:
        sys.exit("a C compiler and readelf are needed (on Debian and Ubuntu: apt install gcc; on Fedora: dnf install gcc)")
    torch = importlib.util.find_spec("torch").submodule_search_locations[0]
    found, missing = find_libraries(torch)
    for name, versions in sorted(wanted_symbols(found, missing).items()):
        compile_stub(compiler, name, versions, os.path.join(torch, "lib"))
    print(f"stubs made: {', '.join(sorted(missing)) or 'none'}")


if __name__ == "__main__":
    main()

"""What the package shows of itself without its compiled module: of use where only Python's standard library is.

Holds the stub `_pliant.pyi` against the Rust sources of the module: names, arguments, their order and which may be left
out. Imports the package with a module made of the stub, and holds against it what the package, docs/python.md and the
notebooks use of both. `make python` does the same and more with the real module. Prints a line for each finding.
"""

import ast
import importlib
import json
import re
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python/pliant"
STUB = PACKAGE / "_pliant.pyi"
# The oldest Python that the package takes.
OLDEST = (3, 10)
# What every object has, and what only Rust's side knows.
COMMON = {"__new__", "__repr__", "__init__"}
# Attributes, name and parameters.
FUNCTION = re.compile(
    r"((?:^[ ]*#\[[^\n]*\]\n)*)^[ ]*(?:pub(?:\([a-z]+\))? )?fn (\w+)(?:<[^(]*>)?\((.*?)\)(?: ->| \{)", re.M | re.S
)
SIGNATURE = re.compile(r"signature = \((.*)\)\)\]")
RENAMED = re.compile(r'pyo3\(name = "(\w+)"')
# Options, name and fields.
CLASS = r"#\[pyclass\(([^\n]*)\)\]\n(?:(?!#\[pyclass)[^\n]*\n)*?pub\(crate\) struct NAME\b[^{;]*(\{.*?^\})?"
METHODS = r"#\[pymethods\]\n(?:#[^\n]*\n)*impl NAME \{\n(.*?)^\}"


def rust_arguments(attributes: str, parameters: str) -> list[tuple[str, bool]]:
    """The arguments as Python has them, and whether each may be left out."""
    if declared := SIGNATURE.search(attributes):
        words = [word.strip() for word in declared[1].split(",")]
        return [(word.partition("=")[0].strip(), "=" in word) for word in words if word]
    while (plain := re.sub(r"<[^<>]*>|\([^()]*\)", "", parameters)) != parameters:
        parameters = plain
    names = [word.partition(":")[0].strip() for word in parameters.split(",") if ":" in word]
    return [(name, False) for name in names if name not in ("py", "slf")]


def rust_surface() -> dict[str, object]:
    """Functions with their arguments, and classes with their methods, as lib.rs adds them."""
    sources = {path.stem: path.read_text() for path in (ROOT / "crates/python/src").glob("*.rs")}
    added = sources["lib"]
    found: dict[str, object] = {}
    for file, name in re.findall(r"wrap_pyfunction!\((\w+)::(\w+),", added):
        for attributes, function, parameters in FUNCTION.findall(sources[file]):
            if function == name and "#[pyfunction]" in attributes:
                renamed = RENAMED.search(attributes)
                found[renamed[1] if renamed else name] = rust_arguments(attributes, parameters)
    for file, name in re.findall(r"add_class::<(\w+)::(\w+)>", added):
        text = sources[file]
        declared = re.search(CLASS.replace("NAME", name), text, re.M | re.S)
        assert declared, f"{file}.rs: no class {name}"
        methods: dict[str, object] = {}
        if "get_all" in declared[1]:
            methods.update((field, None) for field in re.findall(r"^    (?:pub\(crate\) )?(\w+): ", declared[2], re.M))
        for block in re.findall(METHODS.replace("NAME", name), text, re.M | re.S):
            for attributes, method, parameters in FUNCTION.findall(block):
                renamed = RENAMED.search(attributes)
                shown = "__init__" if "#[new]" in attributes else renamed[1] if renamed else method
                methods[shown] = None if "#[getter]" in attributes else rust_arguments(attributes, parameters)
        renamed = re.search(r'\bname = "(\w+)"', declared[1])
        found[renamed[1] if renamed else name] = methods
    return found


def stub_arguments(function: ast.FunctionDef) -> list[tuple[str, bool]]:
    """The same of a function of the stub."""
    arguments = [argument.arg for argument in function.args.args]
    required = len(arguments) - len(function.args.defaults)
    return [(name, at >= required) for at, name in enumerate(arguments) if name not in ("self", "cls")]


def stub_surface(stub: ast.Module) -> dict[str, object]:
    """The same of the stub."""
    found: dict[str, object] = {}
    for entry in stub.body:
        if isinstance(entry, ast.FunctionDef):
            found[entry.name] = stub_arguments(entry)
        elif isinstance(entry, ast.ClassDef):
            methods: dict[str, object] = {}
            for member in entry.body:
                if isinstance(member, ast.FunctionDef):
                    words = {word.id for word in member.decorator_list if isinstance(word, ast.Name)}
                    shown = "__init__" if member.name == "__new__" else member.name
                    methods[shown] = None if "property" in words else stub_arguments(member)
                elif isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                    methods[member.target.id] = None
            found[entry.name] = methods
    return found


def differences(rust: dict[str, object], stub: dict[str, object], owner: str = "") -> list[str]:
    """What is in one of them and not the same in the other."""
    told = []
    for name in sorted(rust.keys() | stub.keys()):
        ours, theirs = rust.get(name, "absent"), stub.get(name, "absent")
        if isinstance(ours, dict) and isinstance(theirs, dict):
            told += differences(ours, theirs, f"{name}.")
        elif ours != theirs and not (name in COMMON and "absent" in (ours, theirs)):
            told.append(f"python/pliant/_pliant.pyi: {owner}{name}: the stub has {theirs}, crates/python has {ours}")
    return told


def import_with(stub: dict[str, object]) -> types.ModuleType:
    """The package, with a module made of the stub: it shows what the package needs when it is imported."""
    module = types.ModuleType("pliant._pliant")
    vars(module)["__version__"] = "0"
    for name, entry in stub.items():
        made = type(name, (), dict.fromkeys(entry)) if isinstance(entry, dict) else lambda *_: None
        setattr(module, name, made)
    sys.modules["pliant._pliant"] = module
    sys.path.insert(0, str(PACKAGE.parent))
    return importlib.import_module("pliant")


def uses(code: str, owner: str) -> set[str]:
    """The names that code takes of a module: `owner.NAME`, and `from .owner import NAME`."""
    found = set()
    for node in ast.walk(ast.parse(code, feature_version=OLDEST)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == owner:
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module == owner:
            found |= {name.name for name in node.names}
    return found


def examples() -> dict[str, str]:
    """The Python of the guide and of the notebooks, by where it is."""
    guide = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/python.md").read_text(), re.M | re.S)
    found = {f"docs/python.md, block {at + 1}": block for at, block in enumerate(guide)}
    for path in sorted(ROOT.glob("docs/notebooks/*.ipynb")):
        for at, cell in enumerate(json.loads(path.read_text())["cells"]):
            if cell["cell_type"] == "code":
                found[f"docs/notebooks/{path.name}, cell {at + 1}"] = "".join(cell["source"])
    return found


def main() -> int:
    """Print what is wrong; return the exit code."""
    stub = stub_surface(ast.parse(STUB.read_text()))
    rust = rust_surface()
    told = differences(rust, stub)
    known = stub.keys() | {"__version__"}
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in sorted(uses(path.read_text(), "_pliant") - known):
            told.append(f"{path.relative_to(ROOT)}: _pliant.{name} is not in the stub")
    package = import_with(stub)
    told += [
        f"python/pliant/__init__.py: {name} is not there" for name in package.__all__ if not hasattr(package, name)
    ]
    modules = {path.stem for path in PACKAGE.iterdir() if not path.name.startswith("_")}
    shown = examples()
    for where, code in shown.items():
        for name in sorted(uses(code, "pliant") - modules):
            if not hasattr(package, name):
                told.append(f"{where}: pliant.{name} is not there")
    print("\n".join(told) or f"{len(rust)} names of the module, {len(shown)} examples: no difference")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())

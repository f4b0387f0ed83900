"""Finds in a core's syntax what would make it depend on anything but its arguments.

Set order is found where it can be seen without types: displays, comprehensions, `set()` and its operators,
`keys()` joined by an operator, and names and attributes annotated or assigned as sets in the same module.
A set that arrives through an untyped door is not seen; mypy leaves few of those.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

ALLOWED = {
    *("__future__", "dataclasses", "enum", "typing", "collections", "heapq", "bisect", "math", "struct"),
    *("zlib", "hashlib", "ipaddress", "re", "itertools", "functools", "operator", "cbor2"),
    "re2",
}
FORBIDDEN_CALLS = {
    "hash": "differs from process to process",
    "id": "is an address",
    "open": "is I/O",
    "print": "is I/O",
    "input": "is I/O",
    "__import__": "hides an import from this test",
}
SET_CALLS = {"set", "frozenset"}
SET_TYPES = {"set", "frozenset", "Set", "AbstractSet", "MutableSet"}
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference", "copy"}
SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)
# These give the same result in any order, unless a `key` makes unequal things tie.
ORDER_BLIND = {"set", "frozenset", "sorted", "len", "any", "all", "sum", "min", "max"}
ORDER_KEEPING = {"list", "tuple", "iter", "enumerate", "dict", "deque", "zip", "map", "filter"}
ORDER_KEEPING_METHODS = {"join", "extend", "extendleft", "fromkeys"}
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def import_breaches(tree: ast.Module, core_names: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if not _may_import(alias.name, core_names):
                    yield _at(node, f"imports {alias.name}")
        elif isinstance(node, ast.ImportFrom):
            yield from _from_breaches(node, core_names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Random":
            yield _at(node, "makes a Random of its own; it is given one")


def _from_breaches(node: ast.ImportFrom, core_names: set[str]) -> Iterator[str]:
    module = "." * node.level + (node.module or "")
    for alias in node.names:
        is_random_type = (module, alias.name) == ("random", "Random")
        is_core = f"{module}.{alias.name}" in core_names
        if not (is_random_type or is_core or _may_import(module, core_names)):
            yield _at(node, f"imports {alias.name} from {module}")


def _may_import(module: str, core_names: set[str]) -> bool:
    return module in core_names or module.split(".")[0] in ALLOWED


def order_breaches(tree: ast.Module) -> Iterator[str]:
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    returning_sets = {function.name for function in functions if _is_set_type(function.returns)}
    yield from Scope(tree, attributes=_set_attributes(tree), functions=returning_sets, outer=set()).breaches()


class Scope:
    """A module, class or function, and the names that hold sets in it."""

    def __init__(self, body: ast.AST, *, attributes: set[str], functions: set[str], outer: set[str]) -> None:
        self.body = body
        self.attributes = attributes
        self.functions = functions
        arguments = list(_arguments(body))
        nodes = list(self.own_nodes())
        stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        self.names = outer - stored - {argument.arg for argument in arguments}
        self.names |= {argument.arg for argument in arguments if _is_set_type(argument.annotation)}
        self.names |= {name.id for name in self.assigned_sets(nodes) if isinstance(name, ast.Name)}
        self.inherited = (
            outer if isinstance(body, ast.ClassDef) else self.names
        )  # methods see past their class

    def own_nodes(self) -> Iterator[ast.AST]:
        waiting = list(ast.iter_child_nodes(self.body))
        while waiting:
            node = waiting.pop()
            yield node
            if not isinstance(node, SCOPES):
                waiting += ast.iter_child_nodes(node)

    def assigned_sets(self, nodes: list[ast.AST]) -> Iterator[ast.expr]:
        for node in nodes:
            if isinstance(node, ast.AnnAssign) and _is_set_type(node.annotation):
                yield node.target
            elif isinstance(node, ast.Assign) and _is_new_set(node.value):
                yield from node.targets

    def breaches(self) -> Iterator[str]:
        nodes = list(self.own_nodes())
        forgiven = {id(argument) for node in nodes for argument in _taken_in_any_order(node)}
        for node in nodes:
            if isinstance(node, SCOPES):
                inner = Scope(
                    node, attributes=self.attributes, functions=self.functions, outer=self.inherited
                )
                yield from inner.breaches()
            elif isinstance(node, ast.Call):
                yield from self.call_breaches(node)
            elif any(self.is_set(iterated) for iterated in _iterated(node)) and id(node) not in forgiven:
                yield _at(node, "takes things in a set's order")

    def call_breaches(self, call: ast.Call) -> Iterator[str]:
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        has_set = any(self.is_set(argument) for argument in call.args)
        if name in FORBIDDEN_CALLS:
            yield _at(call, f"calls {name}(), which {FORBIDDEN_CALLS[name]}")
        elif has_set and (name in ORDER_KEEPING or method in ORDER_KEEPING_METHODS):
            yield _at(call, f"{name or method}() keeps a set's order")
        elif has_set and name in ORDER_BLIND and any(keyword.arg == "key" for keyword in call.keywords):
            yield _at(call, f"{name}() with a key lets a set's order decide between equals")
        elif self.pops_a_set(call):
            yield _at(call, "pops whatever a set gives first")

    def pops_a_set(self, call: ast.Call) -> bool:
        match call:
            case ast.Call(func=ast.Attribute(value=owner, attr="pop"), args=[]):
                return self.is_set(owner)
        return False

    def is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self.names
            case ast.Attribute(attr=name):
                return name in self.attributes
            case ast.Call(func=ast.Name(id=name)) if name in self.functions:
                return True
            case ast.Call(func=ast.Attribute(value=owner, attr=name)):
                return name in self.functions or (name in SET_METHODS and self.is_set(owner))
            case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, SET_OPERATORS):
                return any(self.is_set(side) or _is_keys(side) for side in (left, right))
            case ast.IfExp(body=body, orelse=orelse):
                return self.is_set(body) or self.is_set(orelse)
        return _is_new_set(node)


def _is_new_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in SET_CALLS
    return isinstance(node, ast.Set | ast.SetComp)


def _is_keys(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="keys" | "items")):
            return True
    return False


def _taken_in_any_order(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in ORDER_BLIND:
            return arguments
    return []


def _iterated(node: ast.AST) -> list[ast.expr]:
    """What this node takes one by one, keeping the order it comes in."""
    match node:
        case ast.For(iter=iterable) | ast.AsyncFor(iter=iterable):
            return [iterable]
        case ast.ListComp() | ast.DictComp() | ast.GeneratorExp():
            return [generator.iter for generator in node.generators]
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [element.value for element in elements if isinstance(element, ast.Starred)]
    return []


def _set_attributes(tree: ast.Module) -> set[str]:
    """Attribute names that hold sets; one that also holds something else in this module is let go."""
    annotated = {True: set[str](), False: set[str]()}
    for owner in ast.walk(tree):
        if isinstance(owner, ast.ClassDef):
            for name, annotation in _annotated_attributes(owner):
                annotated[_is_set_type(annotation)].add(name)
    assigned = {
        target.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_new_set(node.value)
        for target in node.targets
        if isinstance(target, ast.Attribute)
    }
    return (annotated[True] | assigned) - annotated[False]


def _annotated_attributes(owner: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(owner):
        match node:
            case ast.AnnAssign(target=ast.Attribute(attr=name)):
                yield name, node.annotation
            case ast.AnnAssign(target=ast.Name(id=name)) if node in owner.body:
                yield name, node.annotation


def _arguments(scope: ast.AST) -> Iterator[ast.arg]:
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        taken = scope.args
        yield from [*taken.posonlyargs, *taken.args, *taken.kwonlyargs]


def _is_set_type(annotation: ast.expr | None) -> bool:
    match annotation:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in SET_TYPES
        case ast.Subscript(value=generic):
            return _is_set_type(generic)
        case ast.BinOp(left=left, right=right):
            return _is_set_type(left) or _is_set_type(right)
    return False


def _at(node: ast.AST, sentence: str) -> str:
    return f"line {getattr(node, 'lineno', '?')} {sentence}"

# SPDX-License-Identifier: Apache-2.0
"""Declarations of C functions in other languages are those of perfpred/c_api.h."""

import ctypes
import importlib.util
import os
import re
import unittest

from perfpred import _library

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(SOURCES, "scripts", "python_fields.py")
PAGE = os.path.join(SOURCES, "docs", "guides", "c_api.md")

HANDLES = ("catalogue", "model", "workload", "plan", "samples")
RUST = {
    "char": "c_char",
    "int": "c_int",
    "size_t": "usize",
    "double": "f64",
    "int64_t": "i64",
}
RUST.update({f"perfpred_{handle}": handle.capitalize() for handle in HANDLES})
CTYPES = {
    "const char*": ctypes.c_char_p,
    "char*": ctypes.c_char_p,
    "size_t": ctypes.c_size_t,
    "int": ctypes.c_int,
}
POINTED = {
    "size_t": ctypes.c_size_t,
    "double": ctypes.c_double,
    "int": ctypes.c_int,
    "int64_t": ctypes.c_int64,
}


def text_of(*path):
    with open(os.path.join(SOURCES, *path)) as file:
        return file.read()


def c_type(parameter):
    """Without its name; `double seconds[3]` is a pointer."""
    parameter = re.sub(r"(\w+)\[\d*\]$", r"*\1", parameter.strip())
    kind = (
        re.sub(r"\b\w+$", "", parameter)
        if re.search(r"[*\s]\w+$", parameter)
        else parameter
    )
    return re.sub(r"\s*\*", "*", kind.strip())


def declared_in_c():
    """Result and parameter types by name of function."""
    header = re.sub(
        r"/\*.*?\*/", "", text_of("include", "perfpred", "c_api.h"), flags=re.S
    )
    found = {}
    for result, name, parameters in re.findall(
        r"PERFPRED_C_API\s+([\w\s*]+?)(perfpred_\w+)\(([^)]*)\);", header
    ):
        types = (
            []
            if parameters.strip() in ("", "void")
            else [c_type(one) for one in parameters.split(",")]
        )
        found[name] = (c_type(result + " x"), types)
    return found


def as_rust(kind):
    """`const char*` is `*const c_char`."""
    if kind == "void":
        return None
    pointed, star, _ = kind.rpartition("*")
    if not star:
        return RUST[kind]
    constant = pointed.startswith("const ") and pointed.count("*") == 0
    return f"*{'const' if constant else 'mut'} {as_rust(pointed.removeprefix('const ') if constant else pointed)}"


def as_ctypes(kind):
    if kind in CTYPES:
        return CTYPES[kind]
    bare = re.sub(r"\bconst\b", "", kind).replace(" ", "")
    base, stars = bare.rstrip("*"), bare.count("*")
    if base.startswith("perfpred_"):
        return ctypes.c_void_p if stars == 1 else ctypes.POINTER(ctypes.c_void_p)
    pointed = ctypes.c_char_p if base == "char" else POINTED[base]
    for _ in range(stars - (base == "char")):
        pointed = ctypes.POINTER(pointed)
    return pointed


class Declarations(unittest.TestCase):
    @unittest.skipUnless(os.path.exists(PAGE), "the pages are not there")
    def test_the_ten_of_rust_are_those_of_the_header(self):
        (block,) = re.findall(r'extern "C" \{(.*?)\n\}', text_of(PAGE), flags=re.S)
        in_rust = re.findall(r"pub fn (\w+)\((.*?)\)(?: -> ([^;]+))?;", block)
        self.assertEqual(len(in_rust), 10)
        header = declared_in_c()
        for name, parameters, result in in_rust:
            types = [
                one.split(":")[1].strip()
                for one in parameters.split(",")
                if one.strip()
            ]
            in_c, of_c = header[name]
            self.assertEqual([as_rust(kind) for kind in of_c], types, name)
            self.assertEqual(as_rust(in_c), result or None, name)
        for name in re.findall(r"C\.(perfpred_\w+)\(", text_of(PAGE)):
            self.assertIn(name, header)

    @unittest.skipUnless(os.path.exists(PAGE), "the header is not there")
    def test_those_of_this_package_are_those_of_the_header(self):
        header = declared_in_c()
        self.assertGreater(len(header), 30)
        for name, arguments in _library._FUNCTIONS.items():
            result, types = header["perfpred_" + name]
            self.assertEqual(result, "int", name)
            self.assertEqual(list(arguments), [as_ctypes(kind) for kind in types], name)


class Fields(unittest.TestCase):
    @unittest.skipUnless(os.path.exists(SCRIPT), "the script is not there")
    def test_the_committed_file_is_that_of_the_library(self):
        spec = importlib.util.spec_from_file_location("python_fields", SCRIPT)
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        made = script.made(_library.json_of("fields")["fields"])
        self.assertEqual(
            made,
            text_of("python", "perfpred", "_fields.py"),
            "scripts/python_fields.py writes it anew",
        )


if __name__ == "__main__":
    unittest.main()

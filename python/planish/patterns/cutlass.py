"""`python -m planish.patterns.cutlass FOLDER OUT`: the kernels that the generator in FOLDER (`cutlass_library`) enumerates, as rows.

This runs code of FOLDER, which nobody trusts: only ever start it in a guest's place, and believe nothing of its rows but that they are rows.
The generator is asked for what it would build for every architecture; nothing is compiled, and it is not let write its files.
"""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from typing import Any

from planish.patterns.rows import MOST_TEXT, Rows

#: A toolkit that is newer than all the generator knows, so that it leaves nothing out.
_TOOLKIT = "13.0"
_EMITTERS = {
    "3x": ("gemm_operation", "EmitGemmUniversal3xInstance"),
    "Universal": ("gemm_operation", "EmitGemmUniversalInstance"),
    "Grouped": ("gemm_operation", "EmitGemmGroupedInstance"),
    "Sparse": ("gemm_operation", "EmitSparseGemmInstance"),
}


def _text(value: Any) -> str:
    """The name of an enumerator, or the value itself."""
    return str(getattr(value, "name", value))


def _joined(values: Any, mark: str = "x") -> str:
    return mark.join(str(v) for v in values)


class Reader:
    def __init__(self, library: Any, rows: Rows) -> None:
        self._library = library
        self._rows = rows
        self._families: set[str] = set()
        self._seen: set[str] = set()

    def add(self, operation: Any) -> None:
        name = str(operation.procedural_name())
        if name in self._seen:
            return
        self._seen.add(name)
        facts = self._facts(operation)
        family = " ".join(str(facts.get(k, [])) for k in ("operation", "variant", "arch", "opcode", "math", "a", "b", "accumulator"))
        row: dict[str, Any] = {"form": "configuration", "name": name, "path": "cutlass_library/generator.py", "line": 0, "family": family, "facts": facts}
        if family not in self._families:
            self._families.add(family)
            row["source"] = self._source(operation)[:MOST_TEXT]
        self._rows.add(row)

    def _facts(self, o: Any) -> dict[str, list[str]]:
        tile, math = o.tile_description, o.tile_description.math_instruction
        facts: dict[str, list[str]] = {"operation": [_text(o.operation_kind)], "arch": [str(o.arch)], "variant": []}
        for kind in ("gemm_kind", "conv_kind", "group_mode", "iterator_algorithm", "stride_support", "mixed_input_mode", "scheduler_mode", "blas_mode"):
            value = getattr(o, kind, None)
            if value is not None:
                facts["variant"].append(_text(value))
        facts["opcode"], facts["math"] = [_text(math.opcode_class)], [_text(math.math_operation)]
        facts["instruction"], facts["accumulator"] = [_joined(math.instruction_shape)], [_text(math.element_accumulator)]
        layouts = []
        for side in "ABCD":
            tensor = getattr(o, side, None)
            if tensor is None:
                continue
            facts[side.lower()] = [_text(tensor.element)]
            layouts.append(_text(tensor.layout))
            if side == "A":
                facts["align"] = [str(tensor.alignment)]
        facts["layouts"] = layouts
        facts["tile"] = [_joined(tile.tile_shape if getattr(o, "is_3x", False) else tile.threadblock_shape)]
        facts["stages"] = [str(tile.stages)]
        facts["warps"] = [_joined(tile.warp_count)]
        if hasattr(tile, "cluster_shape"):
            facts["cluster"] = [_joined(tile.cluster_shape)]
        facts["math_element"] = [_text(math.element_a)]
        for fact, field in (("schedule", "kernel_schedule"), ("epilogue_schedule", "epilogue_schedule"), ("epilogue", "epilogue_functor"),
                            ("scheduler", "tile_scheduler"), ("swizzle", "swizzling_functor")):  # fmt: skip
            value = getattr(o, field, None)
            if value is not None:
                facts[fact] = [_text(value)]
        scale = [str(getattr(o, f"ScaleFactor{d}VecSize", None)) for d in "MNK"]
        if "None" not in scale:
            facts["scale_block"] = ["x".join(scale)]
        return facts

    def _source(self, o: Any) -> str:
        """What the generator itself would print for it; empty where that fails."""
        kind = _text(getattr(o, "gemm_kind", ""))
        which = "3x" if getattr(o, "is_3x", False) and kind else kind
        if which not in _EMITTERS:
            return ""
        module, emitter = _EMITTERS[which]
        try:
            return str(getattr(self._library[module], emitter)("").emit(o)).strip()
        except Exception:  # whatever foreign code raises
            return ""


def main(folder: str, out: str) -> None:
    logging.disable(logging.CRITICAL)
    with Rows(Path(out)) as rows:
        try:
            sys.path.insert(0, folder)
            import importlib

            generator = importlib.import_module("cutlass_library.generator")
            manifest_module = importlib.import_module("cutlass_library.manifest")
            library = {"gemm_operation": importlib.import_module("cutlass_library.gemm_operation")}
            arguments = generator.define_parser().parse_args([])
            arguments.operations, arguments.cuda_version, arguments.filter_by_cc = "all", _TOOLKIT, "False"
            arguments.architectures = "50;60;61;70;75;80;89;90;90a;100a;103a;120a"
            manifest = manifest_module.Manifest(arguments)
        except (Exception, SystemExit) as error:
            rows.skip("cutlass_library/generator.py", f"{type(error).__name__}: {error}")
            return
        reader = Reader(library, rows)
        manifest.append = reader.add
        for name in sorted(n for n in dir(generator) if re.fullmatch(r"GenerateSM\d+", n)):
            try:
                getattr(generator, name)(manifest, _TOOLKIT)
            except (Exception, SystemExit) as error:
                rows.skip(f"cutlass_library/generator.py: {name}", f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])

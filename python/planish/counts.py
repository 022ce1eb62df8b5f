"""How often the programs of a module answered its calls, and why not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from planish.ship.live import attachments


@dataclass(frozen=True)
class Status:
    """What became of a module's calls since its program was attached, in this process. Calls under torch.compile or tracing see the module's
    own code and are not counted."""

    attached: bool  #: whether the module, or a part of it, has a program
    ran: int = 0  #: calls that a program answered
    fell_back: dict[str, int] = field(default_factory=dict)  #: calls that the module's own code answered, by reason
    folders: tuple[str, ...] = ()  #: where the programs lie

    @property
    def calls(self) -> int:
        """All of them."""
        return self.ran + sum(self.fell_back.values())

    def __repr__(self) -> str:
        if not self.attached:
            return "planish: no program is attached"
        lines = [f"planish: the program ran in {self.ran} of {self.calls} call{'' if self.calls == 1 else 's'}"]
        lines += [f"  {count} × the module's own code: {reason}" for reason, count in sorted(self.fell_back.items(), key=lambda item: -item[1])]
        return "\n".join(lines)


def status(module: Any) -> Status:
    """Counts over `module` (or a function that planish.optimize returned) and its parts. Cheap; may be called at any time."""
    module = getattr(module, "module", module) if not isinstance(module, nn.Module) else module
    attached, ran, folders = False, 0, []
    fell_back: dict[str, int] = {}
    for name, part in module.named_modules() if isinstance(module, nn.Module) else ():
        programs = [a for a in attachments(part) if hasattr(a, "refused")]
        attached = attached or bool(programs)
        ran += sum(a.ran for a in programs)
        folders += [a.shipped.key for a in programs if hasattr(a, "shipped")]
        for reason, count in programs[-1].refused.items() if programs else ():  # the last one asked: then the module's own code ran
            text = f"in '{name}': {reason}" if name else reason
            fell_back[text] = fell_back.get(text, 0) + count
    return Status(attached, ran, fell_back, tuple(folders))

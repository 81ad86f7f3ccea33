"""What a user asks for, made ready for SMC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pcgcd.automata import FiniteAutomaton
from pcgcd.basics.numbers import check_whole_number
from pcgcd.basics.texts import utf8
from pcgcd.circuits import CircuitLike
from pcgcd.constraints import Constraint, constraint_of, openai_tools
from pcgcd.decoding.contracts import needs_guide
from pcgcd.decoding.edges import Edge, edge_of
from pcgcd.decoding.portfolio import Portfolio
from pcgcd.decoding.potentials import Hedged, LookAhead, Potential, PrefixValidity, Terminal
from pcgcd.decoding.proposals import GCD, LCD, PGCD, Proposal, Twisted, Unconstrained
from pcgcd.decoding.spelling import Spelled, SpelledPotential, Spelling
from pcgcd.decoding.targets import Target, Wanted, compiles_in_its_own_way
from pcgcd.errors import InvalidParameterError
from pcgcd.lm import LanguageModel, Prompt
from pcgcd.lm.chats import as_asked

if TYPE_CHECKING:
    from pcgcd.automata import Vocabulary
    from pcgcd.decoding.population import Stop

METHODS = ("unconstrained", "rejection", "lcd", "gcd", "pgcd", "twisted")

_BUDGET = 128
# The least share of GCD beside what looks ahead: docs/decoding.md says what it costs and saves.
_GCD_SHARE = 0.1


def usual_share(particles: int) -> float:
    """The share of GCD beside a guide: a tenth, but at least one particle of several.

    >>> [usual_share(k) for k in (1, 2, 4, 16)]
    [0.1, 0.5, 0.25, 0.1]
    """
    return max(_GCD_SHARE, 1 / particles) if particles > 1 else _GCD_SHARE


@dataclass(frozen=True, eq=False)
class Request:
    """One thing to generate.

    Attributes:
        target: A constraint, an automaton over the language model's tokens, or a circuit; or what
            :func:`pcgcd.constraints.constraint_of` takes.
        prompt: A text, token ids, or the messages of a chat.
        budget: The largest number of tokens. The token that ends a text counts, but is not needed
            where the budget is used up. By default 128; of a circuit of one length, that length.
        tools: Functions that the model is shown in the prompt: what
            :func:`pcgcd.constraints.function_call` takes. They do not constrain.
        chat: Whether a text is sent as a message of the user (True), or continued as it stands
            (False); by default as a message where the model knows chats.
    """

    target: Wanted
    prompt: Prompt = ""
    budget: int | None = None
    tools: Any = ()
    chat: bool | None = None

    def __post_init__(self) -> None:
        """Read what may be given in several ways."""
        given: Any = self.target
        if not isinstance(given, Constraint | CircuitLike):
            object.__setattr__(self, "target", constraint_of(given))
        if self.tools:
            object.__setattr__(self, "tools", tuple(openai_tools(self.tools)))

    def encoded_by(self, lm: LanguageModel) -> tuple[int, ...]:
        """Return the tokens of the prompt, with the tools that it shows."""
        prompt = as_asked(lm, self.prompt, self.chat)
        if not self.tools:
            return tuple(lm.encode(prompt))
        if self.chat is False:
            raise InvalidParameterError(
                "tools= are shown to the model in a chat, but chat=False continues a text as it "
                "stands; describe the tools in the prompt, and give function_call(tools) as the "
                "target"
            )
        return tuple(lm.encode(prompt, tools=self.tools))

    def edge(self, lm: LanguageModel, prompt: tuple[int, ...]) -> Edge:
        """Return where the text begins: behind the prompt, or some tokens before its end.

        Args:
            lm: The language model.
            prompt: The tokens of the prompt.
        """
        wanted, text = self.target, as_asked(lm, self.prompt, self.chat)
        if self.tools or not isinstance(text, str) or not text:
            return Edge(prompt)
        # What is compiled in a way of its own need not be what its expression says.
        if not isinstance(wanted, Constraint) or compiles_in_its_own_way(type(wanted)):
            return Edge(prompt)
        return edge_of(text, prompt, wanted, lm.vocabulary)

    @property
    def reader(self) -> Callable[[str], Any] | None:
        """From a text to the value that it stands for, if the constraint has one."""
        return self.target.reader if isinstance(self.target, Constraint) else None

    def budget_for(self, target: Target, room: int | None = None) -> int:
        """Return the budget, checked; without one, the usual.

        Args:
            target: What is generated.
            room: How many tokens the model can still read and write; None if there is no limit.
        """
        if self.budget is None:
            budget = _BUDGET if target.length is None else target.length
        elif target.length is not None and self.budget != target.length:
            raise InvalidParameterError(
                f"the circuit is over {target.length} tokens, so that is its budget, but "
                f"{self.budget!r} was asked for"
            )
        else:
            budget = check_whole_number("the budget", self.budget, 1)
        if room is not None and budget > room:
            default = " by default" if self.budget is None else ""
            raise InvalidParameterError(
                f"the budget is {budget:,} tokens{default}, but after this prompt the model has "
                + (
                    f"room for {room:,}; lower the budget, or shorten the prompt"
                    if room > 0
                    else "no room for any; shorten the prompt"
                )
            )
        return budget

    def satisfied_by(self, target: Target, tokens: Sequence[int], vocabulary: Vocabulary) -> bool:
        """Return whether the text of the tokens satisfies the constraint, whoever made it."""
        if isinstance(self.target, Constraint):
            text = vocabulary.decode(tokens)
            if isinstance(target.allowed, FiniteAutomaton):
                return self.target.check(text)
            return target.allowed.matches(text) and (target.check is None or target.check(text))
        return target.allowed.accepts(tokens)


@dataclass(frozen=True)
class Plan:
    """How to generate.

    Attributes:
        name: What the method is called.
        proposal: What tokens are drawn from.
        potential: What rates unfinished texts.
    """

    name: str
    proposal: Proposal
    potential: Potential

    @property
    def needs_guide(self) -> bool:
        """Whether the target's guide is asked."""
        return needs_guide(self.proposal, "proposal", "weigh") or needs_guide(
            self.potential, "potential", "log_twist"
        )


def choose(
    method: str | Proposal | None,
    potential: str | Potential | None = None,
    w: float | None = None,
    gcd_share: float | None = None,
    *,
    particles: int = 1,
    guided: bool = True,
    spelling: Spelling | None = None,
    spelled: bool | None = None,
) -> Plan:
    """Return the proposal and the potential of a method.

    The methods that look ahead share the particles with GCD, so that a guide which is wrong cannot
    hide a text. A proposal that is given as an object is used as it is.

    Args:
        method: A name, a proposal, or None: "twisted" where there is a guide, else "gcd".
        potential: A name or a potential; without one, that which goes with the method.
        w: How far the language model is trusted; without it, as is usual for the method.
        gcd_share: The share of GCD beside what looks ahead, from 0 to less than 1; without it, a
            tenth, and :func:`usual_share` beside a guide.
        particles: How many there are.
        guided: Whether there is a guide.
        spelling: How the language model spells, if that is known.
        spelled: Whether to look ahead to that; by default with "twisted", and without a method.
    """
    if spelled is None:
        spelled = method in (None, "twisted") and spelling is not None
    if method is None:
        method = "twisted" if guided else "gcd"
    proposals: dict[str, Callable[[], Proposal]] = {
        "unconstrained": Unconstrained,
        "rejection": Unconstrained,
        "lcd": LCD,
        "gcd": GCD,
        "pgcd": lambda: PGCD() if w is None else PGCD(w),
        "twisted": lambda: Twisted() if w is None else Twisted(w),
    }
    if gcd_share is not None and not 0 <= gcd_share < 1:
        raise InvalidParameterError(
            f'gcd_share must lie in [0, 1), but is {gcd_share}; GCD alone is method="gcd"'
        )
    if isinstance(method, str) and method not in proposals:
        raise InvalidParameterError(
            f"method must be one of {', '.join(METHODS)}, or a proposal, but is {method!r}"
        )
    if spelled and method not in ("gcd", "pgcd", "twisted"):
        raise InvalidParameterError(
            f'spelling=True goes with the methods "gcd", "pgcd" and "twisted", but the method is '
            f"{method!r}; a proposal of your own can be wrapped in pcgcd.decoding.Spelled"
        )
    proposal = proposals[method]() if isinstance(method, str) else method
    potentials: dict[str, Callable[[], Potential]] = {
        "terminal": Terminal,
        "local": lambda: PrefixValidity(within_budget=False),
        "prefix": PrefixValidity,
        "pgcd": LookAhead,
    }
    if potential is None and isinstance(proposal, Twisted):
        potential = LookAhead(proposal.w) if proposal.needs_guide else "prefix"
    if potential is None:
        usual = {"unconstrained": "terminal", "lcd": "local", "pgcd": "pgcd"}
        potential = usual.get(method, "prefix") if isinstance(method, str) else "prefix"
    if isinstance(potential, str) and potential not in potentials:
        raise InvalidParameterError(
            f"potential must be one of {', '.join(potentials)}, or an object with log_twist, but "
            f"is {potential!r}"
        )
    rated = potentials[potential]() if isinstance(potential, str) else potential
    guessing = isinstance(method, str) and needs_guide(proposal, "proposal", "weigh")
    doubted = guessing and needs_guide(rated, "potential", "log_twist")
    share = gcd_share
    if share is None:
        share = usual_share(particles) if guessing else _GCD_SHARE
    trusted: Potential = PrefixValidity()
    ahead = guessing
    if spelled and spelling is not None:  # How the model spells is no guess.
        ahead, proposal = True, Spelled(proposal, spelling)
        rated, trusted = (SpelledPotential(each, spelling) for each in (rated, trusted))
    if ahead and share:
        proposal = Portfolio((GCD(), proposal), (share, 1 - share))
    if doubted and share:
        rated = Hedged(rated, share, trusted)
    plan = Plan(method if isinstance(method, str) else repr(method), proposal, rated)
    if plan.needs_guide and not guided:
        raise InvalidParameterError(
            "looking ahead needs a guide, such as an HMM distilled from the language model: give "
            'hmm=, or a circuit such as hmm * fa, or use method="gcd", which needs none'
        )
    return plan


def stop_rule(
    stop: str | Sequence[str] | Callable[[bytes], bool] | None,
    text_of: Callable[[int, tuple[int, ...]], bytes],
) -> Stop | None:
    """Return a rule over texts as a rule over the tokens of a task.

    Args:
        stop: Texts, or a rule over bytes.
        text_of: The text of a task's tokens.
    """
    if stop is None:
        return None
    if callable(stop):
        rule = stop
        return lambda task, tokens: bool(rule(text_of(task, tokens)))
    marks = [stop] if isinstance(stop, str) else stop
    if not isinstance(marks, list | tuple) or not all(isinstance(m, str) and m for m in marks):
        raise InvalidParameterError(
            "stop must be a text that is not empty, a list of them, or a rule over bytes, but is "
            f"{stop!r:.80}"
        )
    found = [utf8(mark, "a stop text") for mark in marks]
    return lambda task, tokens: any(mark in text_of(task, tokens) for mark in found)

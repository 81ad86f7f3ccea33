"""Decoding: proposals, potentials, sequential Monte Carlo, and ``generate``."""

from __future__ import annotations

from pcgcd.decoding.genealogy import Genealogy, Move
from pcgcd.decoding.generation import agenerate, generate
from pcgcd.decoding.generator import Generator
from pcgcd.decoding.next_step import NextStep
from pcgcd.decoding.population import Population, extend, resample
from pcgcd.decoding.portfolio import Portfolio
from pcgcd.decoding.potentials import Hedged, LookAhead, Potential, PrefixValidity, Terminal
from pcgcd.decoding.proposals import GCD, LCD, PGCD, Proposal, Twisted, Unconstrained
from pcgcd.decoding.randomness import Draw, Randomness
from pcgcd.decoding.requests import METHODS, Request
from pcgcd.decoding.resampling import (
    RESAMPLERS,
    effective_sample_size,
    multinomial,
    residual,
    stratified,
    systematic,
)
from pcgcd.decoding.results import Generation, Sample
from pcgcd.decoding.smc import SMC, Step
from pcgcd.decoding.spelling import Spelled, SpelledPotential, Spelling
from pcgcd.decoding.streams import Stream
from pcgcd.decoding.targets import Target
from pcgcd.decoding.transforms import Sharpening

__all__ = [
    "GCD",
    "LCD",
    "METHODS",
    "PGCD",
    "RESAMPLERS",
    "SMC",
    "Draw",
    "Genealogy",
    "Generation",
    "Generator",
    "Hedged",
    "LookAhead",
    "Move",
    "NextStep",
    "Population",
    "Portfolio",
    "Potential",
    "PrefixValidity",
    "Proposal",
    "Randomness",
    "Request",
    "Sample",
    "Sharpening",
    "Spelled",
    "SpelledPotential",
    "Spelling",
    "Step",
    "Stream",
    "Target",
    "Terminal",
    "Twisted",
    "Unconstrained",
    "agenerate",
    "effective_sample_size",
    "extend",
    "generate",
    "multinomial",
    "resample",
    "residual",
    "stratified",
    "systematic",
]

"""Engines that turn prompts into tokens; the generator knows them only through `interface.Sampler`."""

from producers.samplers.interface import Finished, Request, Sampler, Weights
from schemas.config import GeneratorSettings


def make_sampler(settings: GeneratorSettings) -> Sampler:
    """Return the sampler that the settings name. Imports only what that one needs: torch takes seconds."""
    if settings.sampler == "scripted":
        from producers.samplers.scripted import COMPETENCES, SCRIPTS, ScriptedSampler, hinted, scripted
        from producers.samplers.spelling import ByteSpelling, PolicySpelling

        spelling = PolicySpelling() if settings.script_tokens == "policy" else ByteSpelling()
        is_hinted = settings.script in COMPETENCES
        answer = hinted(settings.script) if is_hinted else scripted(SCRIPTS[settings.script])
        return ScriptedSampler(num_slots=settings.num_slots, answer=answer, spelling=spelling)
    from producers.samplers.transformers import TransformersSampler

    return TransformersSampler(num_slots=settings.num_slots, num_threads=settings.num_threads)


__all__ = ["Finished", "Request", "Sampler", "Weights", "make_sampler"]

"""Generate text with tiny models of transformers, whose weights are random."""

import argparse
import random
from typing import Any

import torch
import transformers
from steps import steps

transformers.logging.set_verbosity_error()


def llama() -> Any:
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config).eval()


def t5() -> Any:
    config: Any = transformers.T5Config(
        vocab_size=64,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        pad_token_id=0,
        eos_token_id=63,
    )
    config.decoder_start_token_id = 0
    return transformers.T5ForConditionalGeneration(config).eval()


def main(count: int) -> None:
    for make in (llama, t5):
        torch.manual_seed(2)
        lengths = random.Random(2)
        model = make()
        model.forward = torch.compile(model.forward)
        for step in steps(count):
            batch, length = lengths.randint(1, 3), lengths.randint(2, 20)
            prompt = torch.randint(2, 62, (batch, length))
            mask = torch.ones_like(prompt)
            with torch.no_grad():
                made = model.generate(
                    input_ids=prompt,
                    attention_mask=mask,
                    max_new_tokens=4 + step % 3,
                    do_sample=make is t5,
                    num_beams=2 if step % 10 == 9 else 1,
                )
            if step % 5 == 0:
                print(make.__name__, step, made[0, -4:].tolist())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    main(parser.parse_args().steps)

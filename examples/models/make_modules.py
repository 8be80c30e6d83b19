"""Writes well-known networks as modules: random weights, small sizes, in eval mode.

    python make_modules.py DIRECTORY [--numbered] [--decode]

`models.tsv` lists them: a name, the package, what builds the network, and its inputs. A network's text is a call that needs no
file from anywhere; configurations are written out. The packages are those of `requirements.txt`, whose versions fit together.
With `--decode`, only the language models of transformers are written, each as a step of decoding: one token and its position, and a
cache of keys and values that the step updates.
"""

import argparse
from pathlib import Path

MODULE = '''"""{name}, of {package}."""

import torch
import {package}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.network = ({network}).eval()

    def forward(self, {parameters}):
        {body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
'''

DECODE = '''"""A step of decoding with {name}, of transformers."""

import torch
import transformers
from transformers.integrations.executorch import TorchExportableModuleWithStaticCache


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        network = ({network}).eval()
        network.generation_config = transformers.GenerationConfig(use_cache=True, cache_implementation="static")
        self.step = TorchExportableModuleWithStaticCache(network, batch_size=1, max_cache_len={length})

    def forward(self, token, position):
        return self.step(input_ids=token, cache_position=position)


def get_inputs():
    return [torch.randint(0, 96, (1, 1)), torch.tensor([5])]


def get_init_inputs():
    return []
'''
CACHE_LENGTH = 32
# Language models without such a step: one has no keys, the caches of two have extents that transformers' class for export does not
# know, and one decides on a position's value.
WITHOUT_STEP = {"mamba", "deepseek_v3", "falcon", "opt"}

# The results that count: a network of transformers returns an object with more than these.
BODIES = {
    "torchvision": "return self.network(x0)",
    "timm": "return self.network(x0)",
    "transformers": "return self.network({arguments}, use_cache=False).{result}",
    "diffusers": "return self.network({arguments}).{result}",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--numbered", action="store_true", help="write DIRECTORY/level1/NUMBER_NAME.py, the form of `akg bench`")
    parser.add_argument("--decode", action="store_true", help="write steps of decoding of the language models")
    arguments = parser.parse_args()
    directory = arguments.directory / "level1" if arguments.numbered else arguments.directory
    directory.mkdir(parents=True, exist_ok=True)
    lines = Path(__file__).with_name("models.tsv").read_text().splitlines()
    networks = [line.split("\t") for line in lines if line and not line.startswith("#")]
    if arguments.decode:
        networks = [each for each in networks if is_language_model(*each)]
    for number, (name, package, network, *rest) in enumerate(networks, 1):
        file = f"{number}_{name}.py" if arguments.numbered else f"{name}.py"
        if arguments.decode:
            text = DECODE.format(name=name, network=network, length=CACHE_LENGTH)
        else:
            text = module(name, package, network, *rest)
        (directory / file).write_text(text)


def is_language_model(name, package, network, *rest):
    return package == "transformers" and any(head in network for head in ("ForCausalLM(", "LMHeadModel(")) and name not in WITHOUT_STEP


def module(name, package, network, inputs, result="last_hidden_state"):
    given = [each.strip() for each in inputs.split(";")]
    named = [each.split("=", 1) if "=" in each.split("(")[0] else (None, each) for each in given]
    parameters = [f"x{number}" for number in range(len(named))]
    arguments = ", ".join(f"{key}={value}" if key else value for (key, _), value in zip(named, parameters))
    body = BODIES[package].format(arguments=arguments, result=result)
    if result == "":
        body = f"return self.network({arguments})"
    return MODULE.format(
        name=name,
        package=package,
        network=network,
        parameters=", ".join(parameters),
        body=body,
        inputs=", ".join(value for _, value in named),
    )


if __name__ == "__main__":
    main()

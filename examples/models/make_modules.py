"""Writes well-known networks as modules: random weights, small sizes, in eval mode.

    python make_modules.py DIRECTORY [--numbered]

`models.tsv` lists them: a name, the package, what builds the network, and its inputs. A network's text is a call that needs no
file from anywhere; configurations are written out. The packages are those of `requirements.txt`, whose versions fit together.
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
    arguments = parser.parse_args()
    directory = arguments.directory / "level1" if arguments.numbered else arguments.directory
    directory.mkdir(parents=True, exist_ok=True)
    lines = Path(__file__).with_name("models.tsv").read_text().splitlines()
    networks = [line.split("\t") for line in lines if line and not line.startswith("#")]
    for number, (name, package, network, *rest) in enumerate(networks, 1):
        file = f"{number}_{name}.py" if arguments.numbered else f"{name}.py"
        (directory / file).write_text(module(name, package, network, *rest))


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

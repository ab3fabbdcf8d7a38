"""The inference worker: carries out the owner's commands on one backend and writes down what came of each."""

"""The ways to weigh tasks as training goes on, by name."""

# Text, so that whoever only asks for the names starts without Keras.
WEIGHTINGS: dict[str, str] = {
    "uncertainty": "recsys.weighting.uncertainty:Uncertainty",
    "gradnorm": "recsys.weighting.gradnorm:GradNorm",
    "dwa": "recsys.weighting.dwa:DynamicWeightAverage",
    "pcgrad": "recsys.weighting.pcgrad:PCGrad",
}

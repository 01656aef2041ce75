"""The parts of a ModelDeployment's spec, one concern per module; `modeldeployment` puts them together."""

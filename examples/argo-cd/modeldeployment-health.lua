-- The health of a ModelDeployment for Argo CD, by its generation and its conditions.
local health = {status = "Progressing", message = "Conch has not looked at the model yet."}
if obj.status == nil or obj.status.conditions == nil or obj.status.observedGeneration == 0 then
  return health
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  health.message = "Conch has not looked at the last edit yet."
  return health
end

local conditions = {}
for _, condition in ipairs(obj.status.conditions) do
  conditions[condition.type] = condition
end
local ready, progressing = conditions["Ready"], conditions["Progressing"]
if ready == nil or progressing == nil then
  return health
end

if progressing.status == "False" then
  health.status = "Degraded"
  health.message = progressing.reason .. ": " .. progressing.message
elseif progressing.reason ~= "NewEngineAvailable" then
  health.message = progressing.reason .. ": " .. progressing.message
elseif ready.reason == "NoReplicas" then
  health.status = "Suspended"
  health.message = ready.message
elseif ready.status == "True" then
  health.status = "Healthy"
  health.message = ready.message
else
  health.message = ready.reason .. ": " .. ready.message
end
return health

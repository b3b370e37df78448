local kube = require("kube")
local common = require("common")

function GetReplicas(obj)
  return 1, kube.accuratePodRequirements(obj.spec.template)
end

function InterpretHealth(obj)
  local state = common.field(obj, "status", "containerState")
  if state == nil then
    return false
  end
  if state.running ~= nil then
    return true
  end
  if state.waiting ~= nil then
    return state.waiting.reason == "ContainerCreating"
  end
  return state.terminated ~= nil and state.terminated.exitCode == 0
    and not common.oneOf(state.terminated.reason, "Error OOMKilled ContainerCannotRun")
end

function ReflectStatus(obj)
  return common.report(obj, "readyReplicas containerState conditions")
end

function AggregateStatus(obj, items)
  return common.aggregate(obj, items, {sums = "readyReplicas", any = "containerState", conditions = true})
end

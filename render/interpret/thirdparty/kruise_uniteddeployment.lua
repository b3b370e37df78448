local kube = require("kube")
local common = require("common")

local counters = "replicas readyReplicas updatedReplicas updatedReadyReplicas"

-- spec.template holds the template of a workload, not of a pod, so nothing is known of what a
-- replica asks for.
function GetReplicas(obj)
  return obj.spec.replicas or 1, kube.accuratePodRequirements(obj.spec.template)
end

function ReviseReplica(obj, replicas)
  obj.spec.replicas = replicas
  return obj
end

function InterpretHealth(obj)
  return obj.status ~= nil and obj.metadata ~= nil and obj.spec ~= nil and common.rolledOut(obj)
end

function ReflectStatus(obj)
  return common.report(obj, counters .. " availableReplicas currentRevision collisionCount observedGeneration")
end

function AggregateStatus(obj, items)
  return common.aggregate(obj, items, {sums = counters .. " availableReplicas", any = "currentRevision"})
end

function GetDependencies(obj)
  local templates = {}
  for _, name in ipairs({"statefulSetTemplate", "advancedStatefulSetTemplate", "cloneSetTemplate", "deploymentTemplate"}) do
    local template = common.field(obj, "spec", "template", name, "spec", "template")
    if template ~= nil then
      table.insert(templates, template)
    end
  end
  return common.podDependencies(obj, templates)
end

local common = require("common")

function Retain(desired, observed)
  return common.suspended(desired, observed)
end

function InterpretHealth(obj)
  return common.readyBecause(obj, "Succeeded ChartPullSucceeded")
end

local revisions = "artifact url observedChartName observedSourceArtifactRevision"

function ReflectStatus(obj)
  return common.report(obj, "conditions observedGeneration " .. revisions)
end

function AggregateStatus(obj, items)
  return common.aggregate(obj, items, {any = revisions, conditions = true})
end

function GetDependencies(obj)
  local refs = {}
  for _, name in ipairs({"secretRef", "certSecretRef", "proxySecretRef"}) do
    common.refer(refs, obj, "Secret", common.field(obj, "spec", name, "name"))
  end
  common.refer(refs, obj, "Secret", common.field(obj, "spec", "verify", "secretRef", "name"))
  common.refer(refs, obj, "ServiceAccount", obj.spec.serviceAccountName)
  return refs
end

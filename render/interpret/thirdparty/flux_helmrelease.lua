local common = require("common")

function Retain(desired, observed)
  return common.suspended(desired, observed)
end

function InterpretHealth(obj)
  return common.readyBecause(obj, "ReconciliationSucceeded")
end

local revisions = "lastAppliedRevision lastAttemptedRevision lastAttemptedValuesChecksum lastReleaseRevision helmChart"

function ReflectStatus(obj)
  return common.report(obj, "conditions failures installFailures upgradeFailures observedGeneration " .. revisions)
end

function AggregateStatus(obj, items)
  return common.aggregate(obj, items, {sums = "failures installFailures upgradeFailures", any = revisions, conditions = true})
end

function GetDependencies(obj)
  local refs, spec = {}, obj.spec
  for _, values in ipairs(spec.valuesFrom or {}) do
    if common.oneOf(values.kind, "ConfigMap Secret") then
      common.refer(refs, obj, values.kind, values.name)
    end
  end
  common.refer(refs, obj, "Secret", common.field(spec, "kubeConfig", "secretRef", "name"))
  common.refer(refs, obj, "Secret", common.field(spec, "chart", "spec", "verify", "secretRef", "name"))
  common.refer(refs, obj, "ServiceAccount", spec.serviceAccountName)
  return refs
end

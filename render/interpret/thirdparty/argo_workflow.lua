local common = require("common")

-- What the steps of a workflow ask for is not known before they run; what nodes they go to is.
function GetReplicas(obj)
  local claim = common.claimOf(obj.spec)
  return obj.spec.parallelism or 1, claim and {nodeClaim = claim}
end

function ReviseReplica(obj, replicas)
  obj.spec.parallelism = replicas
  return obj
end

function Retain(desired, observed)
  desired = common.suspended(desired, observed)
  if observed.status ~= nil then
    desired.status = observed.status
  end
  return desired
end

function InterpretHealth(obj)
  local phase = common.field(obj, "status", "phase")
  return phase ~= nil and phase ~= "" and not common.oneOf(phase, "Error Failed")
end

function GetDependencies(obj)
  local spec = obj.spec
  local templates = {{spec = {
    volumes = spec.volumes, imagePullSecrets = spec.imagePullSecrets, serviceAccountName = spec.serviceAccountName,
  }}}
  for _, step in ipairs(spec.templates or {}) do
    local containers = {}
    for _, container in ipairs(common.field(step, "containerSet", "containers") or {}) do
      table.insert(containers, container)
    end
    for _, container in ipairs(step.sidecars or {}) do
      table.insert(containers, container)
    end
    if step.container ~= nil then
      table.insert(containers, step.container)
    end
    if step.script ~= nil then
      table.insert(containers, step.script)
    end
    table.insert(templates, {spec = {
      containers = containers, initContainers = step.initContainers,
      volumes = step.volumes, serviceAccountName = step.serviceAccountName,
    }})
  end
  local refs = common.podDependencies(obj, templates)
  common.refer(refs, obj, "ConfigMap", common.field(spec, "artifactRepositoryRef", "configMap"))
  common.refer(refs, obj, "ConfigMap", common.field(spec, "synchronization", "semaphore", "configMapKeyRef", "name"))
  return refs
end

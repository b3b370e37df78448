-- What the rules for several kinds have in common. Scripts get it by require("common").
local kube = require("kube")
local common = {}

-- field walks down named fields; nil if one of them is missing.
function common.field(value, ...)
  for _, name in ipairs({...}) do
    if type(value) ~= "table" then
      return nil
    end
    value = value[name]
  end
  return value
end

-- number is a counter; a missing one is 0.
function common.number(value, ...)
  return tonumber(common.field(value, ...)) or 0
end

-- oneOf: the value is among the texts, which are separated by blanks.
function common.oneOf(value, texts)
  for text in string.gmatch(texts, "%S+") do
    if text == value then
      return true
    end
  end
  return false
end

-- condition is the entry of status.conditions with the type, an empty table if there is none.
function common.condition(obj, name)
  for _, condition in ipairs(common.field(obj, "status", "conditions") or {}) do
    if condition.type == name then
      return condition
    end
  end
  return {}
end

function common.isTrue(obj, name)
  return common.condition(obj, name).status == "True"
end

-- readyBecause: condition Ready is True for one of the reasons.
function common.readyBecause(obj, reasons)
  local ready = common.condition(obj, "Ready")
  return ready.status == "True" and common.oneOf(ready.reason, reasons)
end

-- notFailed: there are conditions, at least so many, and none of them says Failed.
function common.notFailed(obj, atLeast)
  local conditions = common.field(obj, "status", "conditions")
  return conditions ~= nil and #conditions >= atLeast and not common.isTrue(obj, "Failed")
end

-- observed: the controller has seen the newest spec. Without a status this is an error.
function common.observed(obj)
  return (obj.status.observedGeneration or 0) == (obj.metadata.generation or 0)
end

-- rolledOut is the rule for Deployments.
function common.rolledOut(obj)
  local updated = obj.status.updatedReplicas or 0
  return common.observed(obj) and updated >= (obj.spec.replicas or 0) and (obj.status.availableReplicas or 0) >= updated
end

-- report is these fields of the status with the two generations that tell whether it is up to date.
function common.report(obj, fields)
  local out = {}
  if obj.status == nil then
    return out
  end
  for name in string.gmatch(fields, "%S+") do
    out[name] = obj.status[name]
  end
  out.generation = obj.metadata.generation
  out.resourceTemplateGeneration = tonumber(common.field(obj, "metadata", "annotations", "resourcetemplate.karmada.io/generation"))
  return out
end

-- somewhere are the conditions that tell of trouble or of work under way, which is there as soon as one
-- member has it. All others tell of something that is reached, by every member or not at all.
local somewhere = "Failed RayClusterReplicaFailure Stalled Degraded Suspended Running Restarting Reconciling UpgradeInProgress"

-- united makes one list of conditions of those on all members that report something. One that is to be
-- reached everywhere is Unknown where a member says nothing of it; the message says who says what.
function common.united(items)
  local united, known, reports = {}, {}, 0
  for _, item in ipairs(items) do
    if item.status ~= nil then
      reports = reports + 1
    end
    for _, condition in ipairs(common.field(item, "status", "conditions") or {}) do
      local one = known[condition.type]
      if one == nil then
        one = {type = condition.type, status = condition.status, reason = condition.reason, messages = {}}
        known[condition.type] = one
        table.insert(united, one)
      elseif (one.status == "True") ~= common.oneOf(one.type, somewhere) and (condition.status == "True") ~= (one.status == "True") then
        one.status, one.reason = condition.status, condition.reason
      end
      local when = condition.lastTransitionTime
      if when ~= nil and (one.lastTransitionTime == nil or when > one.lastTransitionTime) then
        one.lastTransitionTime = when
      end
      table.insert(one.messages, item.clusterName .. ": " .. (condition.message or condition.status))
    end
  end
  for _, one in ipairs(united) do
    if one.status == "True" and #one.messages < reports and not common.oneOf(one.type, somewhere) then
      one.status = "Unknown"
    end
    one.message = table.concat(one.messages, ", ")
    one.messages = nil
  end
  return united
end

-- aggregate puts the status of all members into the template's. how says what becomes of a field:
-- sums are added up, earliest and latest are times, any is taken from a member that has it,
-- conditions are united.
function common.aggregate(obj, items, how)
  local status = obj.status or {}
  for name in string.gmatch(how.sums or "", "%S+") do
    local sum = 0
    for _, item in ipairs(items) do
      sum = sum + common.number(item, "status", name)
    end
    status[name] = sum
  end
  local function pick(names, better)
    for name in string.gmatch(names or "", "%S+") do
      local best = nil
      for _, item in ipairs(items) do
        local value = common.field(item, "status", name)
        if value ~= nil and (best == nil or better(value, best)) then
          best = value
        end
      end
      if best ~= nil then
        status[name] = best
      end
    end
  end
  pick(how.earliest, function(a, b) return a < b end)
  pick(how.latest, function(a, b) return a > b end)
  pick(how.any, function() return false end)
  if how.conditions then
    local united = common.united(items)
    if #united > 0 then
      status.conditions = united
    end
  end
  obj.status = status
  if common.caughtUp(obj, items) then
    status.observedGeneration = obj.metadata.generation
  end
  return obj
end

-- worst is the item of the member that is worst off: the one whose status has, under the path, the word
-- that comes first in order; nil if none of them has any.
function common.worst(items, order, ...)
  for word in string.gmatch(order, "%S+") do
    for _, item in ipairs(items) do
      if common.field(item, "status", ...) == word then
        return item
      end
    end
  end
end

-- jobs aggregates what training jobs report: conditions, times, and the pods of each role.
function common.jobs(obj, items)
  obj = common.aggregate(obj, items, {
    conditions = true, earliest = "startTime", latest = "completionTime lastReconcileTime",
  })
  local roles = {}
  for _, item in ipairs(items) do
    for role, pods in pairs(common.field(item, "status", "replicaStatuses") or {}) do
      local sum = roles[role] or {}
      for _, state in ipairs({"active", "succeeded", "failed"}) do
        if pods[state] ~= nil then
          sum[state] = (sum[state] or 0) + pods[state]
        end
      end
      roles[role] = sum
    end
  end
  if next(roles) ~= nil then
    obj.status.replicaStatuses = roles
  end
  return obj
end

-- caughtUp: every member has the newest template, and its controller has seen it.
function common.caughtUp(obj, items)
  for _, item in ipairs(items) do
    if item.status == nil
      or common.number(item.status, "observedGeneration") < common.number(item.status, "generation")
      or common.number(item.status, "resourceTemplateGeneration") < common.number(obj, "metadata", "generation") then
      return false
    end
  end
  return true
end

-- refer adds a reference to a Secret, ConfigMap or ServiceAccount in the object's namespace.
function common.refer(refs, obj, kind, name)
  if name ~= nil and name ~= "" then
    table.insert(refs, {apiVersion = "v1", kind = kind, namespace = obj.metadata.namespace, name = name})
  end
end

-- podDependencies unites what pods of all the templates need.
function common.podDependencies(obj, templates)
  local refs = {}
  for _, template in ipairs(templates) do
    for _, ref in ipairs(kube.getPodDependencies(template, obj.metadata.namespace)) do
      table.insert(refs, ref)
    end
  end
  return refs
end

-- suspended keeps the member's spec.suspend.
function common.suspended(desired, observed)
  local suspend = common.field(observed, "spec", "suspend")
  if suspend ~= nil then
    desired.spec.suspend = suspend
  end
  return desired
end

-- component is one part of a workload that has several.
function common.component(name, replicas, template)
  return {name = name, replicas = replicas, replicaRequirements = template and kube.accuratePodRequirements(template)}
end

-- claimOf is the part of a pod spec that chooses nodes.
function common.claimOf(spec)
  local requirements = kube.accuratePodRequirements({spec = {
    nodeSelector = spec.nodeSelector, tolerations = spec.tolerations, affinity = spec.affinity,
  }})
  return requirements and requirements.nodeClaim
end

-- larger is the larger of two quantities, either of which may be missing.
function common.larger(a, b)
  if a == nil or b ~= nil and kube.getResourceQuantity(b) > kube.getResourceQuantity(a) then
    return b
  end
  return a
end

-- memory is an amount of memory as Java programs take it ("512m", "2g") as a quantity.
function common.memory(text)
  local number, unit = string.match(string.lower(tostring(text)), "^(%d+)([kmgt]?)b?$")
  if number == nil then
    return tostring(text)
  end
  local units = {k = "Ki", m = "Mi", g = "Gi", t = "Ti"}
  return number .. (units[unit] or "")
end

-- rayGroups are the head and the worker groups of a Ray cluster: name, replicas and pod template.
function common.rayGroups(cluster)
  local groups = {{name = "ray-head", replicas = 1, template = common.field(cluster, "headGroupSpec", "template")}}
  for n, group in ipairs(common.field(cluster, "workerGroupSpecs") or {}) do
    local name = group.groupName
    if name == nil or name == "" then
      name = "worker-" .. n
    end
    table.insert(groups, {name = name, replicas = group.replicas or 0, template = group.template})
  end
  return groups
end

function common.rayComponents(cluster)
  local components = {}
  for _, group in ipairs(common.rayGroups(cluster)) do
    table.insert(components, common.component(group.name, group.replicas, group.template))
  end
  return components
end

function common.rayDependencies(obj, cluster)
  local templates = {}
  for _, group in ipairs(common.rayGroups(cluster)) do
    if group.template ~= nil then
      table.insert(templates, group.template)
    end
  end
  return common.podDependencies(obj, templates)
end

return common

# What Dovetail needs of an AWS account: ../README.md tells. The policies beside this file are
# generated (go test ./test/deploy -update).

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.60"
    }
  }
}

variable "cluster_name" {
  type        = string
  description = "Name of the EKS cluster."

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,44}$", var.cluster_name))
    error_message = "Up to 45 letters, digits, - and _, so that the names of the roles fit."
  }
}

variable "namespace" {
  type        = string
  description = "Namespace of the controller's service account."
  default     = "kube-system"
}

variable "service_account" {
  type        = string
  description = "Name of the controller's service account."
  default     = "dovetail"
}

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  here = "${data.aws_partition.current.partition}:events:${data.aws_region.current.name}:${data.aws_caller_identity.current.account_id}"

  policies = toset(["Nodes", "Profiles", "Interruption", "Discovery"])

  # What EC2 and AWS Health have to say, by rule.
  notices = {
    Spot      = { source = ["aws.ec2"], detail-type = ["EC2 Spot Instance Interruption Warning"] }
    Rebalance = { source = ["aws.ec2"], detail-type = ["EC2 Instance Rebalance Recommendation"] }
    State     = { source = ["aws.ec2"], detail-type = ["EC2 Instance State-change Notification"] }
    Reserved  = { source = ["aws.ec2"], detail-type = ["EC2 Capacity Reservation Instance Interruption Warning"] }
    Health = {
      source      = ["aws.health"]
      detail-type = ["AWS Health Event"]
      detail      = { service = ["EC2"], eventTypeCategory = ["scheduledChange"] }
    }
  }
}

resource "aws_iam_role" "node" {
  name = "KarpenterNodeRole-${var.cluster_name}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ec2.${data.aws_partition.current.dns_suffix}" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each   = toset(["AmazonEKS_CNI_Policy", "AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"])
  role       = aws_iam_role.node.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/${each.value}"
}

resource "aws_eks_access_entry" "node" {
  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.node.arn
  type          = "EC2_LINUX"
}

resource "aws_iam_role" "controller" {
  name = "DovetailController-${var.cluster_name}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
      Condition = { StringEquals = { "aws:SourceAccount" = data.aws_caller_identity.current.account_id } }
    }]
  })
}

resource "aws_iam_policy" "controller" {
  for_each = local.policies
  name     = "Dovetail${each.value}-${var.cluster_name}"
  policy = templatefile("${path.module}/policies/${each.value}.json.tftpl", {
    account   = data.aws_caller_identity.current.account_id
    cluster   = var.cluster_name
    node_role = aws_iam_role.node.name
    partition = data.aws_partition.current.partition
    queue     = aws_sqs_queue.notices.name
    region    = data.aws_region.current.name
  })
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each   = local.policies
  role       = aws_iam_role.controller.name
  policy_arn = aws_iam_policy.controller[each.value].arn
}

resource "aws_eks_pod_identity_association" "controller" {
  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.controller.arn
}

resource "aws_sqs_queue" "notices" {
  name = var.cluster_name
  # Older notices are of no use.
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
}

resource "aws_sqs_queue_policy" "notices" {
  queue_url = aws_sqs_queue.notices.url
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "NoticesOfEventBridge"
        Effect    = "Allow"
        Principal = { Service = "events.amazonaws.com" }
        Action    = "sqs:SendMessage"
        Resource  = aws_sqs_queue.notices.arn
        Condition = { ArnLike = { "aws:SourceArn" = "arn:${local.here}:rule/Dovetail*-${var.cluster_name}" } }
      },
      {
        Sid       = "NothingInTheClear"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sqs:*"
        Resource  = aws_sqs_queue.notices.arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
    ]
  })
}

resource "aws_cloudwatch_event_rule" "notices" {
  for_each      = local.notices
  name          = "Dovetail${each.key}-${var.cluster_name}"
  event_pattern = jsonencode(each.value)
}

resource "aws_cloudwatch_event_target" "notices" {
  for_each  = local.notices
  rule      = aws_cloudwatch_event_rule.notices[each.key].name
  target_id = "Queue"
  arn       = aws_sqs_queue.notices.arn
}

output "controller_role" {
  description = "For the controller's service account, where Pod Identity is not used."
  value       = aws_iam_role.controller.arn
}

output "node_role" {
  description = "For EC2NodeClass.spec.role."
  value       = aws_iam_role.node.name
}

output "queue" {
  description = "For --interruption-queue."
  value       = aws_sqs_queue.notices.name
}
